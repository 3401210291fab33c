package agent

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// mentionsWork is a cheap test that all sentences pass which the rules could
// match, and few others: the rules cost a hundred times more.
func mentionsWork(s string) bool {
	words := workWords()
	start := -1
	for i, r := range s {
		if r >= 0x400 {
			return slices.ContainsFunc(workMarks(), func(mark string) bool { return strings.Contains(s, mark) })
		}
		if letter := r >= 'a' && r <= 'z' || r >= 0xc0; letter && start < 0 {
			start = i
		} else if !letter && start >= 0 {
			if words[s[start:i]] {
				return true
			}
			start = -1
		}
	}
	return start >= 0 && words[s[start:]]
}

// workMarks are pieces of which the claims in other scripts need one.
func workMarks() []string {
	return []string{
		"已", "成功", "完成", "完毕", "好了", "我刚", "我把", "我将", // Chinese
		"しました", "ました", "致しま", "済み", // Japanese
		"했", "하였", "됐", "되었", "두었", "보냈", "만들었", "썼", "지웠", "옮겼", // Korean
		"созда", "обновл", "обновил", "сохран", "удал", "отправ", "измен", "добав", "выполн", "запуст",
		"установ", "перемест", "перемещ", "переимен", "запис", "скопир", "настро", "исправ", // Russian
	}
}

// workWords are the verbs of the languages in Latin letters.
var workWords = sync.OnceValue(func() map[string]bool {
	words := map[string]bool{}
	for w := range strings.FieldsSeq(`
		created updated written wrote saved deleted removed edited modified changed added appended moved renamed copied
		sent emailed posted scheduled set run ran executed installed uninstalled committed pushed deployed restarted
		started stopped downloaded uploaded fixed replaced configured stored recorded booked cancelled canceled cleaned
		put pass
		erstellt aktualisiert gespeichert gelöscht geschickt gesendet verschickt geändert hinzugefügt ausgeführt
		installiert verschoben umbenannt angelegt geschrieben entfernt eingerichtet kopiert gestartet bearbeitet behoben
		eingetragen
		créé créée créés créées mis mise enregistré enregistrée enregistrés sauvegardé sauvegardée supprimé supprimée
		supprimés envoyé envoyée envoyés modifié modifiée modifiés ajouté ajoutée ajoutés exécuté exécutée exécutés
		lancé installé installée déplacé déplacée déplacés renommé renommée écrit copié copiée programmé programmée
		corrigé configuré
		creado actualizado guardado eliminado borrado enviado modificado añadido agregado ejecutado instalado movido
		renombrado escrito copiado programado configurado corregido creé actualicé guardé eliminé borré envié modifiqué
		añadí agregué ejecuté instalé moví renombré escribí copié programé configuré
		criei atualizei salvei guardei excluí apaguei removi enviei modifiquei alterei adicionei executei rodei instalei
		movi renomeei escrevi copiei agendei configurei corrigi foi foram`) {
		words[w] = true
	}
	return words
})

func rules(did, thing, not string) claimRules {
	return claimRules{regexp.MustCompile(did), regexp.MustCompile(thing), regexp.MustCompile(not)}
}

// latinClaims are English, German, French, Spanish and Portuguese.
var latinClaims = sync.OnceValue(func() []claimRules {
	const (
		verbs  = `(created|updated|written|wrote|saved|deleted|removed|edited|modified|changed|added|appended|moved|renamed|copied|sent|emailed|posted|scheduled|set|run|ran|executed|installed|uninstalled|committed|pushed|deployed|restarted|started|stopped|downloaded|uploaded|fixed|replaced|configured|stored|recorded|booked|cancelled|canceled|cleaned up|put)`
		things = `\b(files?|folders?|director(y|ies)|scripts?|e-?mails?|messages?|reminders?|calendar|events?|meetings?|appointments?|alarms?|cron|jobs?|tests?|test suite|commands?|commits?|branch(es)?|repo(sitory)?|packages?|dependenc(y|ies)|database|servers?|services?|containers?|config(uration)?|settings?|notes?|to-?do list|workspace|spreadsheet|pull request|playlist|ticket)\b`
		not    = `\b(not|n't|never|couldn't|can't|cannot|didn't|wasn't|haven't|hasn't|unable|fail(s|ed|ure)?|errors?|denied|refused|sorry|unfortunately|if|once|when|whenever|after|before|until|unless|would|could|might|may|should|means?|earlier|previously|already|yesterday|last (time|turn|week|month|year)|below|above|as follows|the following|here'?s?|for example|imagine|suppose|since|times|in (19|20)\d\d|you('ve| have)|knowledge|node\.js|vue\.js|next\.js)\b`
	)
	return []claimRules{
		rules(`(^|\W)(i|we)('ve| have)?( just| now| also| successfully| gone ahead and)* `+verbs+`\b|^(ok(ay)?|done|sure|great|alright|perfect|all set)?[\s!.,:-]*(successfully )?`+verbs+` (the|a|an|your|all|both|\d+|`+"`"+`|"|[\w./-]+\.\w)|^(the|your|all|both|a|an|\d+|`+"`"+`|[\w./-]+\.\w)[^,;]{0,60} (has|have) (now )?been (now |successfully )?`+verbs+`\b|^(the|your|all|both) [^,;]{0,60} (was|were) successfully `+verbs+`\b|^(file|folder|e-?mail|message|reminder|note|event|commit|job|script)s? (was |has been )?(successfully )?`+verbs+`\b|^all (\d+ |the )?tests (now )?pass`,
			things, not),
		rules(`\b(ich habe|habe ich|wir haben)\b.{0,80}\b(erstellt|aktualisiert|gespeichert|gelöscht|geschickt|gesendet|verschickt|geändert|hinzugefügt|ausgeführt|installiert|verschoben|umbenannt|angelegt|geschrieben|entfernt|eingerichtet|kopiert|gestartet|bearbeitet|behoben|eingetragen)|\b(wurden?|ist|sind) (jetzt |nun |erfolgreich )*(erstellt|aktualisiert|gespeichert|gelöscht|gesendet|verschickt|geändert|hinzugefügt|ausgeführt|installiert|verschoben|umbenannt|angelegt|entfernt|eingerichtet|kopiert)`,
			`\b(datei(en)?|ordner|verzeichnis|skript|e-?mail|nachricht|erinnerung|termin|befehl|tests?|konfiguration|einstellung(en)?|notiz|paket)\b`, //nolint:misspell // German
			`\b(nicht|kein|keine|konnte|leider|wenn|falls|sobald|nachdem|folgende[nrs]?|unten|hier|früher|bereits|gestern|fehler|fehlgeschlagen|bedeutet|wird|würde)\b`),
		rules(`\bj'ai (bien |maintenant |également |aussi |juste )?(créé|mis à jour|enregistré|sauvegardé|supprimé|envoyé|modifié|ajouté|exécuté|lancé|installé|déplacé|renommé|écrit|copié|programmé|corrigé|configuré)|\b(a|ont) (bien )?été (bien )?(créé|mis à jour|mise à jour|enregistré|sauvegardé|supprimé|envoyé|modifié|ajouté|exécuté|installé|déplacé|renommé|copié|programmé)`,
			`\b(fichiers?|dossiers?|répertoire|script|e-?mail|courriel|message|rappel|commande|tests?|configuration|paramètres?|note|événement|paquet)\b`,
			`(\bn'|\bne\b|\bpas\b|impossible|échou|désolé|\bsi\b|lorsqu|\bquand\b|ci-dessous|\bvoici\b|suivante?s?|déjà|erreur|\bhier\b|signifie)`),
		rules(`\b(he|hemos|se han?|ha sido|han sido) (sido )?(creado|actualizado|guardado|eliminado|borrado|enviado|modificado|añadido|agregado|ejecutado|instalado|movido|renombrado|escrito|copiado|programado|configurado|corregido)|(^|[\s¡])(creé|actualicé|guardé|eliminé|borré|envié|modifiqué|añadí|agregué|ejecuté|instalé|moví|renombré|escribí|copié|programé|configuré)(\s|$)`,
			`\b(archivos?|ficheros?|carpeta|directorio|script|correo|mensaje|recordatorio|comando|pruebas?|configuración|nota|evento|paquete)\b`, //nolint:misspell // Spanish
			`\b(no|error|falló|fallaron|si|cuando|una vez|a continuación|abajo|siguientes?|ayer|aquí|lo siento|antes|significa)\b`),
		rules(`(^|\s)(criei|atualizei|salvei|guardei|excluí|apaguei|removi|enviei|modifiquei|alterei|adicionei|executei|rodei|instalei|movi|renomeei|escrevi|copiei|agendei|configurei|corrigi)(\s|$)|\b(foi|foram) (criad|atualizad|salv|excluíd|apagad|removid|enviad|modificad|alterad|adicionad|executad|instalad|movid|renomead|copiad|agendad)[oa]s?`,
			`\b(arquivos?|ficheiros?|pasta|diretório|script|e-?mail|mensagem|lembrete|comando|testes?|configuração|nota|evento|pacote)\b`, //nolint:misspell // Portuguese
			`(\bnão\b|\berro|\bfalh|\bse\b|\bquando\b|\babaixo\b|\bseguir\b|\bseguintes?\b|\bontem\b|\baqui\b|\bdesculpe|\bantes\b|\bsignifica\b|\bem (19|20)\d\d)`),
	}
})

var russianClaims = sync.OnceValue(func() []claimRules {
	const end = `([\s.,!:]|$)`
	return []claimRules{rules(
		`(^|\s)(создал|обновил|сохранил|удалил|отправил|изменил|добавил|выполнил|запустил|установил|переместил|переименовал|записал|скопировал|настроил|исправил)а?`+end+`|(^|\s)(создан|обновл[её]н|сохран[её]н|удал[её]н|отправлен|измен[её]н|добавлен|выполнен|установлен|перемещ[её]н|переименован|записан|скопирован)[аоы]?`+end,
		`(файл|папк|каталог|скрипт|письмо|сообщени|напоминани|команд|тест|настройк|конфигураци|заметк|событи|пакет)`,
		`(^|\s)(не|нет|если|когда|после|ниже|вот|ранее|раньше|вчера|уже|означает|был|была|было|были|который|которая|которые)([\s,]|$)|ошибк|следующ|удалось|к сожалению`,
	)}
})

var chineseClaims = sync.OnceValue(func() []claimRules {
	const verbs = `(创建|新建|更新|写入|写好|保存|删除|发送|发出|修改|添加|移动|重命名|执行|运行|安装|提交|设置|部署|下载|上传|清空|追加|记录|复制|修复|建立|設置|創建|寫入|儲存|刪除|傳送|發送|新增|執行|安裝)`
	return []claimRules{rules(
		`(已|已经|已經|已成功|成功|我刚刚|我刚)(为你|为您|帮你|帮您|把|将|給您|为|在)?[^，。；]{0,30}?`+verbs+`(成功|完成|完毕|好了|好|了|到|至|为|在)?|我(把|将)[^，。；]{0,30}`+verbs+`(了|好了|完成)|`+verbs+`(成功|完成|完毕|好了)`,
		`(文件|档案|檔案|目录|文件夹|資料夾|脚本|腳本|邮件|郵件|消息|短信|提醒|日程|会议|任务|命令|配置|笔记|筆記|测试|測試|依赖|仓库|服务|数据库|设置)`,
		`(未|没有|沒有|没能|无法|無法|失败|失敗|不能|错误|抱歉|如果|若|假如|之前|此前|昨天|早些|上次|如下|以下|下面|当你|当您|的话|意味着|表示|是否|可能|例如|比如)`,
	)}
})

var japaneseClaims = sync.OnceValue(func() []claimRules {
	return []claimRules{rules(
		`(作成|更新|保存|削除|送信|変更|追加|実行|インストール|移動|設定|登録|コミット|修正|追記|コピー|書き込み|ダウンロード|アップロード|リネーム)(を|が)?(完了)?(しました|いたしました|致しました|されました|済みです|しておきました)|(書き込み|書き|送り|消し|動かし)ました`,
		`(ファイル|フォルダ|ディレクトリ|スクリプト|メール|メッセージ|リマインダー|予定|コマンド|テスト|設定|メモ|パッケージ)`,
		`(できません|できなかった|ませんでした|失敗|エラー|場合|たら|以下|次の|下記|昨日|先ほど|以前|すでに|既に|でしょうか|ましたか|年に)`,
	)}
})

var koreanClaims = sync.OnceValue(func() []claimRules {
	return []claimRules{rules(
		`(생성|업데이트|수정|저장|삭제|전송|발송|추가|실행|설치|이동|변경|작성|설정|등록|커밋|복사|기록)(을|를|이|가)?\s*(완료)?\s*(했습니다|하였습니다|했어요|됐습니다|되었습니다|해 두었습니다|해두었습니다)|(보냈|만들었|썼|지웠|옮겼)(습니다|어요)`,
		`(파일|폴더|디렉터리|디렉토리|스크립트|이메일|메일|메시지|알림|일정|명령|테스트|설정|메모|패키지)`,
		`(못|실패|없습니다|않았|오류|경우|다음|아래|만약|어제|이전에|이미|년에|습니까|나요)`,
	)}
})
